r"""Numbers and units as siunitx prints them: `\SI{5}{\metre\per\second}` is 5 m/s."""

from __future__ import annotations

import re

from lemmata.latex.source import read_argument, read_optional

_UNITS = {
    "metre": "m", "meter": "m", "gram": "g", "kilogram": "kg", "second": "s", "ampere": "A", "kelvin": "K",
    "mole": "mol", "candela": "cd", "hertz": "Hz", "newton": "N", "pascal": "Pa", "joule": "J", "watt": "W",
    "coulomb": "C", "volt": "V", "farad": "F", "ohm": "Ω", "siemens": "S", "weber": "Wb", "tesla": "T", "henry": "H",
    "celsius": "°C", "degreeCelsius": "°C", "lumen": "lm", "lux": "lx", "becquerel": "Bq", "gray": "Gy",
    "sievert": "Sv", "katal": "kat", "radian": "rad", "steradian": "sr", "degree": "°", "arcminute": "′",
    "arcsecond": "″", "minute": "min", "hour": "h", "day": "d", "litre": "l", "liter": "L", "tonne": "t",
    "electronvolt": "eV", "bar": "bar", "hectare": "ha", "percent": "%", "decibel": "dB", "dalton": "Da",
    "angstrom": "Å", "bit": "bit", "byte": "B", "neper": "Np", "bel": "B", "astronomicalunit": "au",
}  # fmt: skip
_PREFIXES = {
    "quecto": "q", "ronto": "r", "yocto": "y", "zepto": "z", "atto": "a", "femto": "f", "pico": "p", "nano": "n",
    "micro": "µ", "milli": "m", "centi": "c", "deci": "d", "deca": "da", "hecto": "h", "kilo": "k", "mega": "M",
    "giga": "G", "tera": "T", "peta": "P", "exa": "E", "zetta": "Z", "yotta": "Y", "kibi": "Ki", "mebi": "Mi",
    "gibi": "Gi", "tebi": "Ti",
}  # fmt: skip
_ABOVE = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
_POWERS = {"square": "²", "squared": "²", "cubic": "³", "cubed": "³"}
_TOKEN = re.compile(r"\\([a-zA-Z]+)\s*(?:\{([^{}]*)\})?|\^\s*\{?([-+]?\d+)\}?|\\.|[{}~\s]+|[^\\{}~^\s]+", re.DOTALL)
_EXPONENT = re.compile(r"^(.*?)[eEdD]([-+]?\d+)$")
_ANGLES = ("°", "′", "″")
QUANTITY = re.compile(r"\\(SIrange|SI|si|qtyrange|qty|unit|num(?:range)?|ang)(?![a-zA-Z])\s*(?=[\[{])")


def _number(text: str) -> str:
    text = re.sub(r"\\pm|\+-", "±", re.sub(r"\\times|x", "×", text)).replace("$", "")
    text = re.sub(r"[\s~{}]+|\\[, ]", "", text)
    if exponent := _EXPONENT.match(text):
        power = "10" + exponent[2].removeprefix("+").translate(_ABOVE)
        return f"{exponent[1]} × {power}" if exponent[1] else power
    return re.sub("([±×])", r" \1 ", text)


def _unit(text: str) -> str:
    """The symbols of a unit: a slash for `\\per`, superscripts for powers; a unit in letters stays as it is."""
    shown = before = pending = ""  # the last two: a prefix or a slash, and a power, for the next unit
    for token in _TOKEN.finditer(text):
        name, argument, power = token.groups()
        if name == "per":
            before = "/"
        elif name in _PREFIXES:
            before += _PREFIXES[name]
        elif name in _POWERS:
            if name.endswith("d"):
                shown += _POWERS[name]
            else:
                pending = _POWERS[name]
        elif name in ("tothe", "raiseto"):
            power = (argument or "").translate(_ABOVE)
            shown, pending = (shown + power, "") if name == "tothe" else (shown, power)
        elif power:
            shown += power.translate(_ABOVE)
        elif name or not token[0].startswith(("\\", "{", "}", "~", " ", "\n")):
            symbol = _UNITS.get(name, name) if name else token[0].replace(".", " ")
            gap = " " if shown and name and not before.startswith("/") else ""
            shown += gap + before + symbol + pending
            before = pending = ""
    return shown.strip()


def _angle(text: str) -> str:
    parts = zip(text.split(";"), "°′″", strict=False)
    return "".join(_number(part) + mark for part, mark in parts if part.strip())


def read_quantity(name: str, text: str, at: int) -> tuple[str, str, int] | None:
    """The number and the unit that a command of siunitx prints, whose arguments start at `at`, and the offset after."""
    option, at = read_optional(text, at) or ("", at)
    values: list[str] = []
    for _ in range(3 if name in ("SIrange", "qtyrange") else 2 if name in ("SI", "qty", "numrange") else 1):
        argument = read_argument(text, at, 1_000)
        if argument is None:
            return None
        values.append(argument[0])
        at = argument[1]
    if name == "ang":
        return _angle(values[0]), "", at
    if name in ("si", "unit"):  # \unit[5]{m} is of the package units
        is_value = name == "unit" and re.fullmatch(r"[-+\d.,e ]+", option)
        return _number(option) if is_value else "", _unit(values[0]), at
    numbers, unit = (values, "") if name.startswith("num") else (values[:-1], _unit(values[-1]))
    return " to ".join(map(_number, numbers)), unit, at


def quantity_in_text(number: str, unit: str) -> str:
    """A quantity as text: 5 m, 45°."""
    return number + unit if unit in _ANGLES else f"{number} {unit}".strip()


def quantity_in_formula(number: str, unit: str) -> str:
    """A quantity as LaTeX inside a formula."""
    number = re.sub(r"(?<=\d)( to )(?=\S)", r"\\text{\1}", number)
    return number + (("\\," if number else "") + f"\\mathrm{{{unit}}}" if unit else "")
