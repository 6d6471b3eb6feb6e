"""What surrounds a lab: starting it, and what its teacher needs."""
