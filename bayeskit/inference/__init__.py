"""``explain`` and ``infer``: the ladder of methods."""
