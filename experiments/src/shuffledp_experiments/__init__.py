"""Tables and figures of the papers, reproduced next to certified and attained values.

A published number is judged by a proof on one side and a concrete dataset on the other
(`entry.judge`). The formulas of the papers appear here as curves to look at; none of them feeds a
guarantee.
"""
