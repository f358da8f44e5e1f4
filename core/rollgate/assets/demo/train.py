"""Trains the demo tokenizer on text of the project's own. Needs the PyPI package `tokenizers`.

    python train.py            writes the files that TARGETS names
    python train.py --check    makes them again and fails unless they are the same

The chat template is written in `template.jinja`. The text is `corpus.txt` plus what `generated()` makes from the word lists below with a fixed seed.
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = Path(__file__).parent
TARGETS = ["tokenizer.json", "tokenizer_config.json", "config.json"]
CONTEXT = 32768
SIZE = 3072  # bytes and merges, without the added tokens
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# (text, special): control tokens first, markers of the output grammar after them.
ADDED = [
    ("<|endoftext|>", True),
    ("<|im_start|>", True),
    ("<|im_end|>", True),
    ("<think>", False),
    ("</think>", False),
    ("<tool_call>", False),
    ("</tool_call>", False),
    ("<tool_response>", False),
    ("</tool_response>", False),
]

VERBS = "read write open close check create remove copy count sort parse print send receive record store load start stop test build compile install update merge compare measure render encode decode sample train evaluate repeat retry wait explain describe verify search find replace rename move list".split()
NOUNS = "file directory line word token request reply session engine gateway agent model prompt answer message tool command script function variable module package library number list table key value error warning result output input test case branch commit version config server client connection socket thread process memory cache queue journal record sample reward task attempt sandbox container image network port address header body user assistant system instruction question example".split()
ADJECTIVES = "empty missing small large long short new old first last next wrong right simple open closed local remote hidden broken stable slow fast safe shared private public final initial valid invalid unknown".split()
ADVERBS = "again first carefully quickly together twice later here instead already finally".split()
SHELL = ["ls -la {d}", "cat {f}", "python3 {f}", "grep -n '{n}' {f}", "mkdir -p {d}", "rm -f {f}", "wc -l {f}", "cp {f} {d}/", "head -n {k} {f}", "tail -n {k} {f}", "sed -n '{k},{m}p' {f}", "find {d} -name '*.py'", "chmod +x {f}", "git add {f}", "git commit -m \"{v} the {n}\"", "echo \"{n}\" > {f}", "test -f {f} && echo ok", "cargo build --release", "cargo test {n}", "pytest -q {f}", "pip install {n}", "touch {f}", "mv {f} {d}/{f}", "pwd", "cd {d}"]
ENDINGS = [".py", ".rs", ".txt", ".json", ".toml", ".md", ".sh", ".log"]


def sentence(rng: random.Random) -> str:
    """One English sentence about everyday work on programs."""
    v, w = rng.sample(VERBS, 2)
    a, b = rng.sample(NOUNS, 2)
    j, k = rng.sample(ADJECTIVES, 2)
    forms = [
        f"I will {v} the {j} {a} and then {w} the {b}.",
        f"The {a} is {j}, so we have to {v} it before the {b} can be used.",
        f"If the {a} of the {b} is {j}, {v} it {rng.choice(ADVERBS)}; otherwise {w} the {k} one.",
        f"Please {v} every {a} that has a {j} {b}.",
        f"It looks like the {b} was not found because the {a} is {j}.",
        f"Let me {v} the {a} to see whether the {b} is {j} or {k}.",
        f"Next, I should {v} the {a}, since the user asked for a {j} {b}.",
        f"There are {rng.randint(2, 99)} {j} {a}s in the {b}, which is more than I expected.",
        f"We don't {v} the {a} here; that's what the {k} {b} is for.",
    ]
    return rng.choice(forms)


def call(rng: random.Random) -> str:
    """One tool call as a model writes it."""
    blanks = {
        "d": rng.choice(NOUNS),
        "f": rng.choice(NOUNS) + rng.choice(ENDINGS),
        "n": rng.choice(NOUNS),
        "v": rng.choice(VERBS),
        "k": rng.randint(1, 20),
        "m": rng.randint(21, 400),
    }
    command = rng.choice(SHELL).format(**blanks)
    kind = rng.randrange(4)
    if kind == 0:
        return "$ " + command
    if kind == 1:
        arguments = {"path": "/home/agent/" + blanks["f"], "limit": blanks["m"]}
        return json.dumps({"name": "read_file", "arguments": arguments})
    return json.dumps({"name": "bash", "arguments": {"command": command}})


def code(rng: random.Random) -> str:
    """A small function, in Python or in Rust."""
    v, a, b = rng.choice(VERBS), rng.choice(NOUNS), rng.choice(NOUNS)
    n = rng.randint(0, 999)
    if rng.random() < 0.5:
        return (
            f"def {v}_{a}({b}, limit={n}):\n    \"\"\"{v.capitalize()}s the {a}.\"\"\"\n"
            f"    for index, item in enumerate({b}):\n        if item is None or index > limit:\n"
            f"            continue\n        yield item.{v}()\n    return {a}\n"
        )
    return (
        f"/// {v.capitalize()}s the {a}.\npub fn {v}_{a}({b}: &str, limit: usize) -> Result<u32, Error> {{\n"
        f"    let mut {a} = Vec::with_capacity({n});\n    for item in {b}.lines().take(limit) {{\n"
        f"        {a}.push(item.parse::<u32>()?);\n    }}\n    Ok({a}.len() as u32)\n}}\n"
    )


def generated() -> list[str]:
    """About 45 KB of text, the same at every run."""
    rng = random.Random(20)
    parts = []
    for _ in range(150):
        parts.append(" ".join(sentence(rng) for _ in range(3)))
        parts.append(call(rng) + "\n" + call(rng))
        if rng.random() < 0.35:
            parts.append(code(rng))
    return parts


def train() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel(
        add_prefix_space=False, trim_offsets=False, use_regex=False
    )
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        min_frequency=1,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    corpus = (HERE / "corpus.txt").read_text(encoding="utf-8").split("\n\n")
    tokenizer.train_from_iterator(corpus + generated(), trainer)
    return tokenizer


def as_json(tokenizer: Tokenizer) -> str:
    data = json.loads(tokenizer.to_str())
    size = len(data["model"]["vocab"])
    data["added_tokens"] = [
        {
            "id": size + place,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": special,
        }
        for place, (text, special) in enumerate(ADDED)
    ]
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n"


def tokenizer_config() -> str:
    """The names of the control tokens, and the chat template."""
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "model_max_length": CONTEXT,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "add_bos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "chat_template": (HERE / "template.jinja").read_text(encoding="utf-8"),
    }
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def model_config(tokens: int) -> str:
    """What an engine would be told of the model; the vocabulary is padded, as real ones are."""
    ids = {text: tokens + place for place, (text, _) in enumerate(ADDED)}
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
        "max_position_embeddings": CONTEXT,
        "vocab_size": -(-(tokens + len(ADDED)) // 64) * 64,
    }
    return json.dumps(config, indent=2) + "\n"


def main() -> int:
    tokenizer = train()
    texts = {
        "tokenizer.json": as_json(tokenizer),
        "tokenizer_config.json": tokenizer_config(),
        "config.json": model_config(tokenizer.get_vocab_size(with_added_tokens=False)),
    }
    differs = False
    for name in TARGETS:
        target = HERE / name
        if "--check" in sys.argv[1:]:
            if target.read_text(encoding="utf-8") != texts[name]:
                print(f"{name} differs from what train.py makes")
                differs = True
        else:
            target.write_text(texts[name], encoding="utf-8")
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
