"""Commands for the labs: starting and checking a lab, and the instructor's tools."""
