"""Each check of docs/mixing.md as (module, its source, what stands there without it): see
`test_every_mixing_check`."""

CUT = {
    "one encoding": (
        "group",
        "if not _is_encoding(_library(), encoded):",
        "if not _library().crypto_core_ristretto255_is_valid_point(encoded):",
    ),
    "K2": (
        "keys",
        '            verify_knowledge("blinding"',
        '            (lambda *_: None)("blinding"',
    ),
    "K3": (
        "keys",
        '                verify_knowledge("opening"',
        '                (lambda *_: None)("opening"',
    ),
    "C1 enrolled": ("claims", "if claim.credential not in enrolled:", "if False:"),
    "C1 lengths": (
        "claims",
        "if lengths != (WIDTH, PROOF_BYTES, WIDTH * terms.messages_per_user):",
        "if False:",
    ),
    "C1 signed": ("claims", "verify_signature(terms, claim)  # C1", "pass"),
    "C2": ("claims", "if len(set(keys)) != len(keys):  # C2", "if False:"),
    "C3": (
        "claims",
        "verify_all((terms.manifest, claim.credential, claim.root), keys, claim.proof)  # C3",
        "pass",
    ),
    "C3 powers": ("proofs", "points.powers(c)", "multiply(c, Element(points.total))"),
    "C4": ("claims", "legal and keys == claim.keys and", "legal or"),
    "L1": ("claims", "terms.require_signed(1, signed_list(terms, digest), signature)", "pass"),
    "L3": ("claims", "if not terms.min_reports <= len(claims) <= terms.max_reports:", "if False:"),
    "L4": ("claims", "    if len(set(keys)) != len(keys):  # L4", "    if False:"),
    "H1 signed": (
        "chain",
        "terms.require_signed(position, signed_header(terms, header), header.signature)  # H1",
        "pass",
    ),
    "H1 list": (
        "chain",
        "if (header.position, header.previous, header.list_digest, header.exclusions) != seen:",
        "if False:",
    ),
    "H1 link": ("chain", "header.previous, header.list", "self.link, header.list"),
    "H1 once": (
        "hops",
        "if self._header is not None and self._header.parts() != headers[-1].parts():",
        "if False:",
    ),
    "H2": ("chain", "header.count != terms.messages_per_user * self.users or ", ""),
    "H2 board": ("chain", "if len(board) != terms.messages_per_user * chain.users:", "if False:"),
    "H3": ("chain", "        if len(set(keys)) != len(keys):  # H3", "        if False:"),
    "H4": ("chain", "if not records or root(records) != header.root:", "if False:"),
    "H5": ("chain", "!= chain.total:  # H5", "is None:"),
    "H6": ("headers", '    verify_equal("hop"', '    (lambda *_: None)("hop"'),
    "H7 left": ("hops", "if not self._settled:  # H7", "if False:"),
    "H7 traced": ("hops", " or accused != self._accusation", ""),
    "H8": ("hops", "if self._output is None:  # H8", "if True:"),
    "F1": ("terms", 'if int.from_bytes(symbol, "big") >= self.alphabet:', "if False:"),
    "F2": ("terms", "elif not stands:", "elif False:"),
    "F3": ("chain", "if users < self.case.terms.min_reports:", "if False:"),
    "T0 step": (
        "blame",
        "case.terms.require_signed(at, signed_answer(case, at, so_far, step), step.signature)",
        "pass",
    ),
    "F4": (
        "chain",
        "terms.require_signed(terms.analyst, signed_board(chain, board), signature)",
        "pass",
    ),
    "T0 path": ("evidence", "if any(len(partner) != WIDTH for partner in path):", "if False:"),
    "T0 accused": (
        "blame",
        "terms.require_signed(position, signed_accused(case, position, accused), "
        "accused.signature)",
        "pass",
    ),
    "T0 origin": (
        "blame",
        "case.terms.require_signed(1, signed_answer(case, 1, so_far, trace.origin), "
        "trace.origin.signature)",
        "pass",
    ),
    "T0 moves": (
        "blame",
        "case.terms.require_signed(position, signed_moves(case, position, so_far, hop), "
        "hop.signature)",
        "pass",
    ),
    "T1": (
        "blame",
        "case.verify_in_output(position - 1, accused.index, accused.record, accused.path)  # T1",
        "pass",
    ),
    "T2 opens": ("blame", "if terms.content(position, key, share, box) is not None:", "if False:"),
    "T2 share": ("blame", '    verify_equal("opening"', '    (lambda *_: None)("opening"'),
    "T3 path": (
        "blame",
        "case.verify_in_output(position - 1, step.index, step.record, step.path)  # T3",
        "pass",
    ),
    "T3 blinding": (
        "blame",
        "_check_blinded(terms, position, key, key_of(outgoing), step.blinding_proof)  # T3",
        "pass",
    ),
    "T3 deleted": ("blame", "if key in case.deleted.get(position, ()):", "if False:"),
    "T4": ("blame", "if terms.open(position, share, box) != split(outgoing)[1]:", "if False:"),
    "T5 path": (
        "blame",
        "verify_path(claim.root, leaf, origin.index, terms.messages_per_user, origin.path)  # T5",
        "pass",
    ),
    "T5 blinding": (
        "blame",
        "_check_blinded(terms, 1, key, key_of(outgoing), origin.blinding_proof)  # T5",
        "pass",
    ),
    "T6 named": ("blame", "if shown != named or any(", "if any("),
    "T6": (
        "blame",
        "_check_blinded(case.terms, position, key, key_of(moved.record), moved.blinding_proof)",
        "pass",
    ),
    "T6 path": (
        "blame",
        "case.verify_in_output(position, moved.index, moved.record, moved.path)  # T6 path",
        "pass",
    ),
    "T7 own": ("hops", " or question.headers[at] != own", ""),
    "T7": (
        "hops",
        "        return case, check_trace(case, question.position, question.trace)",
        "        return case, question.trace.accused.record",
    ),
}
