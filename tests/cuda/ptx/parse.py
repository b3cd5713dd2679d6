"""PTX as text: kernels, their variables, and statements with operands ("Syntax", "State Spaces, Types, and Variables", "Instruction
Operands")."""
import collections
import re

WIDTHS = {"pred": 1, **{kind + str(bits): bits // 8 for kind in "busf" for bits in (8, 16, 32, 64)}, "f16x2": 4, "bf16": 2, "bf16x2": 4}

Variable = collections.namedtuple("Variable", "space name align size data")
Statement = collections.namedtuple("Statement", "line text guard negated op parts operands")


class Kernel:
    """Parameters (name -> place and bytes), registers (name -> bytes), variables, statements, and labels (name -> number of the
    statement that follows)."""

    def __init__(self, name):
        self.name, self.params, self.param_bytes, self.most_threads = name, {}, 0, 1024
        self.registers, self.variables, self.code, self.labels = {}, [], [], {}

    def __repr__(self):
        return self.name


class Address(collections.namedtuple("Address", "base offset")):
    """[base + offset]: a register's name, a variable's, or None."""


class Vector(tuple):
    """{a, b}"""


class Pair(tuple):
    """a|b, the two results of setp and shfl."""


class Not(str):
    """!p"""


def strip(text):
    return re.sub(r"/\*.*?\*/", " ", re.sub(r"//[^\n]*", "", text), flags=re.S)


def variable(text):
    """".shared .align 16 .b8 name[64] = {...}" of any space."""
    m = re.match(r"(?:\.extern|\.visible)?\s*\.(shared|global|local|const)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$%]+)((?:\[\d*\])*)\s*(?:=\s*(.*))?$", text, re.S)
    if not m:
        raise ValueError("no variable: " + text)
    space, align, kind, name, extents, init = m.groups()
    size = WIDTHS[kind]
    for extent in re.findall(r"\[(\d*)\]", extents):
        size *= int(extent or 0)  # no extent: as much as the launch asks for
    data = b"".join(number(x, WIDTHS[kind]).to_bytes(WIDTHS[kind], "little") for x in re.findall(r"[\w.+-]+", init)) if init else b""
    return Variable(space, name, int(align or WIDTHS[kind]), size, data)


def number(text, width=8):
    """The bits of an integer or of a float that is written by its bits ("Floating-Point Constants")."""
    m = re.fullmatch(r"0([fFdD])([0-9a-fA-F]+)", text)
    if m:
        return int(m[2], 16)
    return int(text.rstrip("uU"), 8 if re.fullmatch(r"-?0[0-7]+", text) else 0) & (1 << 8 * width) - 1


def split(text):
    """At commas outside of brackets."""
    out, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "{[(") - (c in "}])")
        if c == "," and not depth:
            out.append(text[last:i].strip())
            last = i + 1
    return out + [text[last:].strip()] if text.strip() else out


def operand(text, rename):
    if text[0] == "{":
        return Vector(operand(x, rename) for x in split(text[1:-1]))
    if text[0] == "[":
        inner = text[1:-1].strip()
        m = re.fullmatch(r"([\w$%.]*[A-Za-z_$%][\w$%.]*)?\s*(?:\+?\s*(-?\d+))?", inner)
        if not m:
            raise ValueError("no address: " + text)
        return Address(rename.get(m[1], m[1]), int(m[2] or 0))
    if text[0] == "!":
        return Not(rename.get(text[1:], text[1:]))
    if "|" in text:
        return Pair(operand(x.strip(), rename) for x in text.split("|"))
    return rename.get(text, text)


def statement(text, line, rename):
    m = re.match(r"(?:@(!?)([\w$%]+)\s+)?([a-z][\w.:]*)\s*(.*)$", text, re.S)
    if not m:
        raise ValueError("no statement: %s" % text)
    negated, guard, op, rest = m.groups()
    parts = [p for p in re.split(r"[.]|::", op)]
    return Statement(line, " ".join(text.split()), rename.get(guard, guard), bool(negated), op, parts, [operand(x, rename) for x in split(rest)])


def declare(kernel, text, rename, scope):
    """Registers; those of an inner block have names of their own."""
    kind, names = re.match(r"\.reg\s+\.(\w+)\s+(.*)$", text, re.S).groups()
    for name in split(names):
        m = re.fullmatch(r"([\w$%]+)<(\d+)>", name)
        for one in (m[1] + str(i) for i in range(int(m[2]))) if m else (name,):
            if scope:
                rename[one] = "%s@%d" % (one, scope)
            kernel.registers[rename.get(one, one)] = WIDTHS[kind]


def parameters(kernel, text):
    at = 0
    for param in split(text):
        m = re.match(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?$", param)
        width = WIDTHS[m[2]]
        align, size = int(m[1] or width), width * int(m[4] or 1)
        at = -(-at // align) * align
        kernel.params[m[3]] = at, size
        at += size
    kernel.param_bytes = at


def body(kernel, text, line):
    """Statements end with ; and labels with :, inline assembly has blocks with registers of their own."""
    scopes, count, at, seen = [{}], 0, line, 0
    for m in re.finditer(r"\s*(?:([$\w]+):(?!:)|([{}])(?=\s)|([{}])$|((?:[^;{}:]|::|\{[^{}]*\})+);|(\{))", text):
        label, brace, last, code, opens = m.groups()
        at, seen = at + text.count("\n", seen, m.end()), m.end()
        if label:
            kernel.labels[label] = len(kernel.code)
        elif opens or "{" in (brace, last):
            count += 1
            scopes.append(dict(scopes[-1]))
        elif brace or last:
            scopes.pop()
        elif code.strip().startswith(".reg"):
            declare(kernel, code.strip(), scopes[-1], count if len(scopes) > 1 else 0)
        elif code.strip().startswith(".pragma"):
            continue
        elif code.strip().startswith("."):
            kernel.variables.append(variable(code.strip()))
        elif code.strip():
            kernel.code.append(statement(code.strip(), at, scopes[-1]))
    return kernel


def parse(text):
    """name -> Kernel; each has the variables of the module among its own."""
    plain = strip(text)
    kernels, outside, at = {}, [], 0
    head = re.compile(r"\.visible\s+\.entry\s+(\w+)\s*\((.*?)\)\s*((?:\.\w+[^{]*)?)\{", re.S)
    while True:
        m = head.search(plain, at)
        between = plain[at:m.start() if m else len(plain)]
        for piece in between.split(";"):
            piece = re.sub(r"\.(version|target|address_size)[^\n]*", "", piece).strip()
            if piece:
                outside.append(variable(piece))
        if not m:
            break
        end = plain.index("\n}\n", m.end())
        kernel = kernels[m[1]] = Kernel(m[1])
        parameters(kernel, m[2])
        most = re.search(r"\.maxntid (\d+)", m[3])
        kernel.most_threads = int(most[1]) if most else 1024
        body(kernel, plain[m.end():end + 1], plain.count("\n", 0, m.end()) + 1)
        at = end + 3
    for kernel in kernels.values():
        kernel.variables[:0] = outside
    return kernels
