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
/// A `while` jumps back to its test; else the test stands at the end of the round too.
inline constexpr bool kLoopsTestAtTop = false;
/// Nothing may stand between LOAD_SPECIAL and CALL.
inline constexpr bool kKeepsSpecialCallsTogether = false;
/// sum() of floats adds with compensation; of complex numbers, and of ints among floats, too.
inline constexpr bool kSumCompensates = true;
inline constexpr bool kSumCompensatesAll = false;
/// A list that has room for at most so many items keeps it until it is empty.
inline constexpr int kKeptRoom = 0;
/// A product or quotient of complex numbers that is NaN in both parts is computed again, as C's Annex G does.
inline constexpr bool kRecoversComplexNaNs = true;
/// A real operand beside a complex one has no imaginary part, not one of 0.
inline constexpr bool kMixesComplex = false;
/// Collection runs at the eval breaker only, not when objects are made.
inline constexpr bool kCollectsAtEvalBreaker = true;
/// Where the fields of an iterator over a range lie, in bytes; the number of items that were taken, or -1: `start`
/// moves.
inline constexpr int kRangeIndex = -1, kRangeStart = 16, kRangeStep = 24, kRangeLength = 32;
/// The word in front of an int's digits is a tag, of sign and count (else the count, with the int's sign).
inline constexpr bool kIntsHaveTags = true;
/// References to None, True and False are not counted.
inline constexpr bool kHasImmortals = true;
/// A specialised call of a class enters __init__ without asking for the frame evaluation function.
inline constexpr bool kConstructorsSkipHook = true;
/// ~ of a bool warns that it is deprecated.
inline constexpr bool kInvertingBoolWarns = true;

}  // namespace framejit::capture::py
