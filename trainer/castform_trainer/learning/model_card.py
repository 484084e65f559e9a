"""The README beside saved adapters: what they are and how they are used, in place of peft's empty form."""

from __future__ import annotations

from pathlib import Path, PurePath

from castform import __version__


def write_model_card(folder: Path, *, base: str) -> None:
    """Write `README.md` into a folder of adapters. `base`: name or path of the model they belong to.

    Only its last part is written: a path of the machine that trained means nothing elsewhere.
    OSError when the disk refuses.
    """
    name = PurePath(base).name or base
    (folder / "README.md").write_text(
        f"""---
library_name: peft
pipeline_tag: text-generation
tags: [castform, lora]
---

# Adapters for {name}

LoRA weights trained by castform {__version__}. They belong to {name} and to no other model.

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM

model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("path/to/{name}"), "path/to/this/folder")
```

Rank, scale and the layers they sit on are in `adapter_config.json`.
""",
        encoding="utf-8",
    )
