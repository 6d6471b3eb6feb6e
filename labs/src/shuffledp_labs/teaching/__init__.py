"""Commands around a lab: starting and checking it, and the instructor's tools."""
