"""What a conversion says about a row: notes on what was changed or kept, or why it is refused."""

from __future__ import annotations

from typing import NamedTuple

NOTES: dict[str, str] = {
    "arguments_decoded": "the arguments of a call were encoded twice; the inner text is kept to the character",
    "arguments_empty": "a call had no arguments, which is written {}",
    "arguments_encoded": "the arguments of a call were an object; they are its JSON text now",
    "bom_removed": "a byte order mark was removed",
    "call_id_added": "a call or result had no id and got one",
    "call_id_renamed": "two calls of the row had the same id; the later one and its result got another",
    "call_wrapped": "a call or tool lacked its usual frame (`type`, `function`) and got it",
    "calls_from_text": "calls that were text in <tool_call> tags became tool calls, arguments as they were spelled",
    "calls_removed": "an empty list of calls was removed",
    "column_dropped": "a column was dropped, as --drop asked",
    "content_encoded": "a tool result was no text; it is its JSON text now",
    "content_joined": "content in text parts became one string, the parts joined with nothing between them",
    "decoded": "a column held JSON as text and was decoded",
    "ends_without_answer": "messages follow the last assistant message; they are kept and teach nothing",
    "function_renamed": "`functions` and `function_call`, the older spelling, became tools and tool calls",
    "kept_in_metadata": "keys that the format does not know are kept in the row's metadata",
    "leading_space_removed": "the one space that a completion began with was removed",
    "metadata_renamed": "a key of the metadata was reserved or taken and got another name",
    "name_redundant": "the name in a tool result was that of the function it answers, and was removed",
    "nulls_removed": "keys whose value was null, or empty where that means none, were removed",
    "parameters_added": "a tool without parameters got those of a function that takes none",
    "reasoning_not_trained": "reasoning beside the content is kept in the metadata and not trained on",
    "refusal_as_content": "the text of a refusal became the content of the message",
    "result_added": "the row ended on calls without results; empty results were added, which nothing learns from",
    "results_from_text": "results that were text in <tool_response> tags became messages of their own",
    "results_reordered": "results of parallel calls were put in the order of the calls",
    "role_renamed": "a role got the name that it has in the format (developer is system, function is tool)",
    "roles_repeat": "messages of the same role follow one another; they are kept, some chat templates refuse it",
    "starts_with_assistant": "the conversation starts with the assistant; it is kept as it is",
    "system_removed": "an empty system message was removed",
    "tool_duplicate_removed": "a tool was defined twice in the same words; one is kept",
    "trailing_comma": "a comma stood behind the last row of the array",
    "unpacked": "the file was compressed and was read unpacked",
    "utf16_decoded": "the file was in UTF-16 or UTF-32 and was read as text",
    "weight_from_flag": "a turn's `train`, `training` or `loss` became its weight",
    "weight_integer": "a weight of 0.0 or 1.0 became the integer",
    "weight_removed": "a weight of 0 was removed from a message that is never trained on",
    "weight_zero": "assistant messages of the prompt got weight 0: only the completion is trained on",
}
"""Every code that a note can have, and what it says. Codes stay; wording may change."""

REFUSALS: dict[str, str] = {
    "call_not_json": "a function call is not JSON with a name and arguments",
    "column_type": "a column holds a value of a kind that the format does not have there",
    "columns_clash": "two columns say different things about the same",
    "completion_missing": "there is no completion or output to train on",
    "cut_off": "the file ends, or stops making sense, before its rows do",
    "history_invalid": "the history is not a list of pairs of question and answer",
    "multimodal": "content other than text: images, audio or files",
    "other_format": "the row is of another format than the one converted from",
    "preference_pair": "the row holds a better and a worse answer, for preference training",
    "preference_rejected": "the row's answer is labelled as one not to give",
    "result_unlinked": "a tool result answers no call that can be told",
    "speaker_unknown": "the name of a speaker that is not among those known",
    "text_only": "the row is plain text without turns",
    "unknown_row": "none of the columns that the format needs are there",
}
"""Every code of a refusal beside those of benchmax.sft.CODES."""


class Note(NamedTuple):
    """One thing that was done to a row, or that is worth knowing about it."""

    code: str
    """One of NOTES; of a refusal one of REFUSALS or of benchmax.sft.CODES."""
    location: str
    """Address in the source row, as in benchmax.sft: `$`, `$.messages[2].weight`."""
    message: str


class RefusedError(Exception):
    """The row cannot be converted."""

    def __init__(self, code: str, location: str, message: str) -> None:
        super().__init__(code, location, message)
        self.note = Note(code, location, message)
