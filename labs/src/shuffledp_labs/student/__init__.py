"""A student's program as another process: what it is asked, what it answers, and the box it runs
in.
"""
