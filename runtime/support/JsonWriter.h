//===- JsonWriter.h - JSON in the order of the calls ---------------------------------------===//
//
// The writer keeps nothing but the text, so that large files cost their size once. Doubles have 17
// digits, so they are the same when read back.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_JSONWRITER_H
#define RUNTIME_SUPPORT_JSONWRITER_H

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace omnibal::rt {

class JsonWriter {
public:
  /// `indent` 0: everything on one line.
  explicit JsonWriter(int indent = 0) : indent(indent) {}

  /// `members` writes attributes.
  template <typename F> void object(F members) {
    open('{');
    members();
    close('}');
  }
  /// `elements` writes values.
  template <typename F> void array(F elements) {
    open('[');
    elements();
    close(']');
  }
  /// A number, a truth value, a text, null, or a list of these.
  template <typename T> void value(const T &item) {
    if constexpr (std::is_same_v<T, bool>)
      rawValue(item ? "true" : "false");
    else if constexpr (std::is_null_pointer_v<T>)
      rawValue("null");
    else if constexpr (std::is_integral_v<T>)
      rawValue(std::to_string(item));
    else if constexpr (std::is_floating_point_v<T>)
      rawValue(numberText(item));
    else if constexpr (std::is_convertible_v<const T &, std::string_view>)
      rawValue(quoted(item));
    else
      array([&] {
        for (const auto &element : item)
          value(element);
      });
  }
  /// A text that is JSON already.
  void rawValue(std::string_view json);

  template <typename T> void attribute(std::string_view key, const T &item) {
    name(key);
    value(item);
  }
  template <typename F> void attributeObject(std::string_view key, F members) {
    name(key);
    object(members);
  }
  template <typename F> void attributeArray(std::string_view key, F elements) {
    name(key);
    array(elements);
  }
  /// A list with an object for each item; `members` writes the attributes of the item's.
  template <typename T, typename F>
  void attributeObjects(std::string_view key, const T &items, F members) {
    attributeArray(key, [&] {
      for (const auto &item : items)
        object([&] { members(item); });
    });
  }
  void rawAttribute(std::string_view key, std::string_view json) {
    name(key);
    rawValue(json);
  }

  /// What was written.
  std::string take() { return std::move(text); }

private:
  void open(char bracket);
  void close(char bracket);
  /// A key of the open object; the next value is its own.
  void name(std::string_view key);
  /// The comma after what stands before in the open container, and the place of what comes.
  void separate();
  void newLine();
  static std::string quoted(std::string_view item);
  static std::string numberText(double item);

  int indent;
  std::string text;
  std::vector<bool> hasMembers; ///< by open container
  bool named = false;           ///< the key of the value to come is written
};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_JSONWRITER_H
