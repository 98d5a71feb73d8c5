"""Pairs of answers as preference data has them: one prompt with its pictures, a chosen and a rejected answer."""
from preparation import MARK, BadSample

SIDES = ("chosen", "rejected")


def is_pair(item):
    return isinstance(item, dict) and any(side in item for side in SIDES)


def text_of(content, where):
    """A turn's text; of a list of pieces, with a mark for each picture."""
    if isinstance(content, list) and all(isinstance(piece, dict) for piece in content):
        content = "".join(MARK if piece.get("type") == "image" else piece.get("text") or "" for piece in content)
    if not isinstance(content, str):
        raise BadSample(f"{where}: the text is not a string")
    return content


def turns_of(value, where, speaker):
    """Turns as objects with "role" and "content": of a text (of this speaker), of one turn, or of a list of turns."""
    if isinstance(value, str):
        return [{"role": speaker, "content": value}]
    turns = [value] if isinstance(value, dict) else value
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
        raise BadSample(f"{where}: neither a text nor turns")
    return [{"role": turn.get("from", turn.get("role")), "content": text_of(turn.get("value", turn.get("content")), where)}
            for turn in turns]


def common(a, b):
    """How many turns both begin with."""
    return next((i for i, (left, right) in enumerate(zip(a, b)) if left != right), min(len(a), len(b)))


def sides_of(item):
    """{side: the line as a conversation} and how many turns the prompt has. The prompt stands in "prompt", "conversations"
    or "messages", or both answers are whole conversations that begin with it."""
    for side, other in (SIDES, SIDES[::-1]):
        if not item.get(side):
            raise BadSample(f'a pair has a chosen and a rejected answer, and this one has "{other}" alone'
                            if item.get(other) else 'neither "chosen" nor "rejected" holds an answer')
    answers = {side: turns_of(item[side], side, "assistant") for side in SIDES}
    given = next((item[name] for name in ("prompt", "conversations", "messages") if item.get(name)), None)
    if given is None:
        shared = common(*answers.values())
        prompt = answers["chosen"][:shared]
        answers = {side: turns[shared:] for side, turns in answers.items()}
    else:
        prompt = turns_of(given, "prompt", "user")
    if not prompt:
        raise BadSample('there is no "prompt", and the answers do not begin with the same turns')
    if answers["chosen"] == answers["rejected"]:
        raise BadSample("both answers are the same, so there is nothing to prefer")
    for side, turns in answers.items():
        if not turns:
            raise BadSample(f"{side}: no answer is left behind what both begin with")
        if any(MARK in turn["content"] for turn in turns):
            raise BadSample(f"{side}: pictures belong to the prompt, which both answers share")
    pictures = {name: item[name] for name in ("image", "images") if name in item}
    return {side: {"messages": prompt + turns, **pictures} for side, turns in answers.items()}, len(prompt)


def joined(encoded):
    """One sample of what a model made of both sides: (ids, labels, inputs per token, tiles) each."""
    (ids, labels, per_token, tiles), (other_ids, other_labels, other_per_token, _) = (encoded[side] for side in SIDES)
    sample = dict(input_ids=ids + other_ids, labels=labels + other_labels, chosen_tokens=len(ids))
    for name, values in per_token.items():
        sample[name] = values + other_per_token[name]
    return sample, tiles
