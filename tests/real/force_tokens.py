"""A vLLM logits processor that makes chosen tokens happen, for tests with a random model.

Start the engine with `--logits-processors force_tokens:ForceTokens` and this folder on PYTHONPATH. A request says

    "sampling_params": {"extra_args": {"force": [[id, id, -1, ...], ...]}}

with one list per answer of the conversation: the list is chosen by how many answers the prompt
holds before the open one (`<|im_start|>assistant`); past the last list all is free. An id is
forced, -1 is sampled freely, and after the end of a list all is free.

vLLM computes the log-probabilities that it reports before logits processors run (`raw_logprobs`,
its default), so they stay the model's own and can be scored again as a prompt. Structured outputs
cannot be used for that: their mask is in the numbers (see README.md).
"""

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

IM_START, ASSISTANT = 151644, 77091
FREE = -1


class ForceTokens(AdapterLogitsProcessor):
    @classmethod
    def validate_params(cls, params: SamplingParams):
        lists = (params.extra_args or {}).get("force")
        if lists is None:
            return
        if not all(isinstance(ids, list) and all(isinstance(i, int) for i in ids) for ids in lists):
            raise ValueError("extra_args.force must be lists of token ids")

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: SamplingParams):
        lists = (params.extra_args or {}).get("force")
        return None if lists is None else lambda prompt, output, logits: force(lists, prompt, output, logits)


def force(lists, prompt, output, logits):
    answer = sum(1 for a, b in zip(prompt, prompt[1:]) if (a, b) == (IM_START, ASSISTANT)) - 1
    ids = lists[answer] if 0 <= answer < len(lists) else []
    step = len(output)
    if step >= len(ids) or ids[step] == FREE:
        return logits
    only = torch.full_like(logits, float("-inf"))
    only[ids[step]] = logits[ids[step]]
    return only
