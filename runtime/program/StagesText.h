//===- StagesText.h - Parts of stages.json without reading all of it --------------------------===//
//
// What thousands of micro-batches make long in a program are the lists of actions and the offsets
// of regions, of which a rank needs its own stage's. These functions find their ends in the text
// without a thought for what lies between. They expect well-formed JSON: what is made of anything
// else is for the parser to refuse.
//
//===-----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PROGRAM_STAGESTEXT_H
#define RUNTIME_PROGRAM_STAGESTEXT_H

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace omnibal::rt {

/// The texts of an array's elements; nothing if `array` is none.
std::optional<std::vector<std::string_view>> elementsOfArray(std::string_view array);

/// `text` with an empty array for every value of an object's member that has one of these names.
std::string withoutMembers(std::string_view text, std::initializer_list<std::string_view> names);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_STAGESTEXT_H
