"""The looks that all pages of lemmata share: colours by day and by night, and type."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root{color-scheme:light dark;--paper:#fdfdfb;--ink:#22262b;--quiet:#6b7280;--line:#e3e4e0;--note:#fff6dc;
--edge:#d9a400;--c0:#2f6db3;--c1:#c8641b;--c2:#2f8f6b;--c3:#9a4fa3;--c4:#a08400;--c5:#5b6b7a}
@media (prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e4e6e9;--quiet:#949ca8;--line:#2c3138;
--note:#2c2612;--edge:#b98f12;--c0:#6ea8ea;--c1:#f0955a;--c2:#63c7a0;--c3:#cf8fd8;--c4:#d8bd4a;--c5:#a3b1c0}}
*{box-sizing:border-box}body{margin:0 auto;max-width:64rem;padding:3rem 1.5rem 5rem;background:var(--paper);
color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
h1{font-size:1.6rem;font-weight:600;margin:0}h2{font-size:1.05rem;font-weight:600;margin:3rem 0 .75rem}
"""
