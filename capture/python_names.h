// The modules of the Python package that C++ imports, or knows objects by.
#pragma once

namespace framejit::python_names {

inline constexpr const char* kArrayApi = "framejit.array_api";
inline constexpr const char* kControl = "framejit._api._control";
inline constexpr const char* kDtypes = "framejit._api._dtypes";
inline constexpr const char* kFormat = "framejit._reporting._format";
inline constexpr const char* kLibraryFunctions = "framejit._traced._library_functions";
inline constexpr const char* kLibraryGradients = "framejit._traced._library_gradients";
inline constexpr const char* kNumpyFunctions = "framejit._traced._numpy_functions";
inline constexpr const char* kPickling = "framejit._api._pickling";
inline constexpr const char* kPolyfills = "framejit._traced._polyfills";
inline constexpr const char* kProgress = "framejit._reporting._progress";
inline constexpr const char* kSpecs = "framejit._api._specs";
inline constexpr const char* kTensor = "framejit._tensors._tensor";
inline constexpr const char* kVerify = "framejit._reporting._verify";

}  // namespace framejit::python_names
