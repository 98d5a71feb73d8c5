//===- SampleReader.h - KEY.json, read in one pass ------------------------------------------===//
//
// A sample's file may hold anything beside the lists of tokens. What is not wanted is passed over
// as it comes: memory is that of the lists that are kept and of the longest text in the file.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DATA_SAMPLEREADER_H
#define RUNTIME_DATA_SAMPLEREADER_H

#include "runtime/data/SampleInternal.h"
#include <cstring>
#include <iterator>

namespace omnibal::rt {

/// A value of the file's outermost object.
struct SampleField {
  bool isList = false;
  std::vector<int32_t> values; ///< of a list, as far as they are wanted
  int64_t count = 0;           ///< elements of the list
  std::string why;             ///< why it is no list of 32-bit integers
  std::optional<uint64_t> number;
};

/// Takes a parser's events (nlohmann::json::sax_parse).
class SampleReader {
public:
  using Json = nlohmann::json;
  explicit SampleReader(const SampleNeeds &needs) : needs(needs) {}

  bool null() { return other(); }
  bool boolean(bool) { return other(); }
  bool number_float(Json::number_float_t, const std::string &) { return other(); }
  bool string(std::string &) { return other(); }
  bool binary(Json::binary_t &) { return other(); }
  bool number_integer(Json::number_integer_t value) {
    return depth == 2 && list ? element(value) : other();
  }
  bool number_unsigned(Json::number_unsigned_t value);
  bool start_object(size_t);
  bool end_object() { return leave(); }
  bool start_array(size_t);
  bool end_array() { return leave(); }
  bool key(std::string &name);
  bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &error) {
    failure = std::string("not valid JSON: ") + error.what();
    return false;
  }

  std::map<std::string, SampleField> fields;
  std::string failure; ///< of the whole file
  bool isObject = false;

private:
  bool other();
  bool element(int64_t value);
  bool leave();
  bool wanted(const std::string &name) const;

  const SampleNeeds &needs;
  SampleField *field = nullptr; ///< of the last key of the outermost object
  SampleField *list = nullptr;  ///< the list that is being read
  SampleField passed;           ///< in place of what is not wanted
  int depth = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_DATA_SAMPLEREADER_H
