"""Keys of a deployment: creation, renewal, enrolment, overview (`shuffledp keys`)."""
