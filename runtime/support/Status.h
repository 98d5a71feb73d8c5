//===- Status.h - Errors as values -----------------------------------------------------------===//
//
// Every fallible runtime function returns Status or Result<T>. A message names what went wrong,
// where (file, field, rank, ...) and what to do; `context` adds the caller's view in front.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_STATUS_H
#define RUNTIME_SUPPORT_STATUS_H

#include <string>
#include <utility>
#include <variant>

namespace omnibal::rt {

enum class Code {
  Ok,
  InvalidArgument, ///< the user's input is wrong
  NotFound,
  DataLoss, ///< a file is corrupt or truncated
  OutOfMemory,
  Unavailable, ///< I/O failed, a peer went away
  DeadlineExceeded,
  Aborted, ///< another rank failed first
  Internal ///< a bug of ours
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Code code, std::string message) : theCode(code), theMessage(std::move(message)) {}
  static Status ok() { return {}; }
  bool isOk() const { return theCode == Code::Ok; }
  explicit operator bool() const { return isOk(); }
  Code code() const { return theCode; }
  const std::string &message() const { return theMessage; }
  /// The same error with `where: ` in front of its message; no effect on success.
  Status context(const std::string &where) && {
    if (!isOk())
      theMessage = where + ": " + theMessage;
    return std::move(*this);
  }

private:
  Code theCode = Code::Ok;
  std::string theMessage;
};

inline Status invalid(std::string message) { return {Code::InvalidArgument, std::move(message)}; }

template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : storage(std::move(value)) {}
  Result(Status status) : storage(std::move(status)) {}
  bool isOk() const { return storage.index() == 0; }
  explicit operator bool() const { return isOk(); }
  T &operator*() & { return std::get<0>(storage); }
  const T &operator*() const & { return std::get<0>(storage); }
  T &&operator*() && { return std::get<0>(std::move(storage)); }
  T *operator->() { return &std::get<0>(storage); }
  const T *operator->() const { return &std::get<0>(storage); }
  Status status() const & { return isOk() ? Status() : std::get<1>(storage); }
  Status status() && { return isOk() ? Status() : std::get<1>(std::move(storage)); }

private:
  std::variant<T, Status> storage;
};

} // namespace omnibal::rt

/// Returns the Status of `expression` from the enclosing function if it is an error.
#define OMNIBAL_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                             \
    if (::omnibal::rt::Status omnibalStatus = (expression); !omnibalStatus)                        \
      return omnibalStatus;                                                                        \
  } while (false)

#define OMNIBAL_CONCAT_INNER(a, b) a##b
#define OMNIBAL_CONCAT(a, b) OMNIBAL_CONCAT_INNER(a, b)
/// `OMNIBAL_ASSIGN_OR_RETURN(auto x, f());` binds the value of a Result or returns its Status.
#define OMNIBAL_ASSIGN_OR_RETURN(declaration, expression)                                          \
  OMNIBAL_ASSIGN_OR_RETURN_IMPL(OMNIBAL_CONCAT(omnibalResult, __LINE__), declaration, expression)
#define OMNIBAL_ASSIGN_OR_RETURN_IMPL(result, declaration, expression)                             \
  auto result = (expression);                                                                      \
  if (!result)                                                                                     \
    return std::move(result).status();                                                             \
  declaration = *std::move(result)

#endif // RUNTIME_SUPPORT_STATUS_H
