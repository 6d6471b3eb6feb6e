"""Ten labs on the shuffle model: instances, checks, and the sandbox in which students' programs
run.
"""
