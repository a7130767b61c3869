"""Switches of MindSpore's compiler that programs set. Each may be set; none changes anything: what it turns on is so here, or is not needed."""

from __future__ import annotations

CHECK_BPROP = "1"
ENABLE_FIX_CODE_LINE = "1"
ENABLE_RECOMPUTE_BEFORE_INLINE = ""
ENHANCED_COMPILER = ""
FALLBACK_FORCE_ANY = "0"
FALLBACK_SUPPORT_LIST_DICT_INPLACE = ""
FOR_HALF_UNROLL = ""
GRAD_FOR_SCALAR = ""
JIT_ENABLE_AUGASSIGN_INPLACE = "1"
PRE_LIFT = ""
RECURSIVE_EVAL = ""
