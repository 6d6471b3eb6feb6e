"""Any local randomiser (K10), the mechanisms of the lecture (C8 to C10), and published RDP for comparison."""
