"""Eleven labs on the shuffle model: instances, checks, and a sandbox for students' programs."""
