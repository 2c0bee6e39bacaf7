from collections.abc import Mapping
from typing import Any, Callable, Optional

from . import Function

def wrap(function: Function, constants: Optional[Mapping[str, Any]] = None, /, **named: Any) -> Callable[..., Any]: ...
