# SPDX-License-Identifier: Apache-2.0
"""Keys of scenarios, from the JSON Schema that `stepcast schema` prints."""
import itertools
import re


def keys(schema, top=None):
    """{key of a mapping: what may stand in it}, or {} of anything else."""
    top = top or schema
    if "$ref" in schema:
        return keys(top["$defs"][schema["$ref"].rsplit("/")[-1]], top)
    found = dict(schema.get("properties", {}))
    for choice in itertools.chain(schema.get("anyOf", []), schema.get("oneOf", [])):
        found.update(keys(choice, top))
    return found


def paths(schema, top=None, above=""):
    """Dotted paths of all keys; those of `model` are Hugging Face's."""
    for key, inner in keys(schema, top or schema).items():
        yield above + key
        if key != "model" and key not in above.split("."):  # a schema may be nested in itself
            yield from paths(inner, top or schema, f"{above}{key}.")


def is_setting(span, schema):
    """Whether `span` speaks of a key, as `overlap.tp` or `moe: {...}`; `batch` alone may be anything."""
    first = re.match(r"([a-z_]+)(: |:$|\.\w)", span)
    return first is not None and "*" not in span and first[1] in keys(schema)


def missing_key(span, schema):
    """The part of `a.b: {c: ...}` that is no key of a scenario, or None."""
    path = re.match(r"[a-z_]+(\.[a-z_0-9]+)*", span)[0]
    inner_map = re.sub(r"(?<=.){[^{}]*}(?=.*})", "", span[len(path):])  # one level of braces
    here = keys(schema)
    for word in path.split("."):
        if here and word not in here:
            return word
        here = keys(here.get(word, {}), schema)
    return next((word for word in re.findall(r"[{,] ?([a-z_0-9]+):", inner_map) if here and word not in here), None)
