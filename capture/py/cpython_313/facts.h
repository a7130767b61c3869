// CPython 3.13: what its bytecode and objects mean where versions differ.
#pragma once

namespace framejit::capture::py {

/// PUSH_NULL, and what pushes NULL with a callable, put it behind the callable (else in front of it).
inline constexpr bool kNullBehindCallable = true;
/// The compiler joins the line table entries of neighbours that have one location.
inline constexpr bool kJoinsLocations = true;
/// Stack entries of an iterator: a second one says where a list, tuple or str is, or is NULL.
inline constexpr int kIteratorSlots = 1;
/// Instructions at the target of FOR_ITER that it goes past where the iterator is at its end: END_FOR, and what pops.
inline constexpr int kLoopEndInstructions = 2;
/// The same at the target of SEND: END_SEND.
inline constexpr int kSendEndInstructions = 1;
/// WITH_EXCEPT_START: how far from the top of the stack __exit__ is; with kExitHasSelf its self or NULL is above it.
inline constexpr int kExitAt = 4;
inline constexpr bool kExitHasSelf = false;
/// Slots of frames have tags in their two low bits.
inline constexpr bool kTaggedSlots = false;
/// The object of a call's argument may be owned by the caller's local alone: its reference count does not say so.
inline constexpr bool kBorrowsArguments = false;
/// What evaluates a frame clears it and takes it off the data stack.
inline constexpr bool kEvaluationClearsFrame = true;
/// A `while` jumps back to its test; else the test stands at the end of the round too.
inline constexpr bool kLoopsTestAtTop = false;
/// Code says how many words a frame of it has (co_framesize).
inline constexpr bool kCodeHasFrameSize = true;
/// Nothing may stand between LOAD_SPECIAL and CALL.
inline constexpr bool kKeepsSpecialCallsTogether = false;
/// bool(NotImplemented) raises; else it warns.
inline constexpr bool kNotImplementedHasNoTruth = false;
/// sum() of floats adds with compensation; of complex numbers too.
inline constexpr bool kSumCompensates = true;
inline constexpr bool kSumCompensatesComplex = false;
/// Collection runs at the eval breaker only, not when objects are made.
inline constexpr bool kCollectsAtEvalBreaker = true;

}  // namespace framejit::capture::py
