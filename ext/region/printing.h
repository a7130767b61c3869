// What print() and str() may run beside framejit's own code and the interpreter's.
#pragma once

namespace framejit::ext::region {

/// Does print() now run no code of the program's: is sys.stdout one of Python's own files, or of a class that writes as
/// they do, or None?
bool stdout_is_plain();

/// Are arrays shown by NumPy's own functions now?
bool arrays_are_shown_plainly();

}  // namespace framejit::ext::region
