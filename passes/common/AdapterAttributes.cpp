#include "passes/common/AdapterAttributes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace omnibal {
namespace {

using Fields = SmallVector<std::pair<StringRef, std::string>>;

/// Strings by name, and what is true.
Attribute record(Builder &builder, const Fields &fields, StringRef flag = {}, bool set = false) {
  NamedAttrList list;
  for (const auto &[name, text] : fields)
    list.append(name, builder.getStringAttr(text));
  if (set)
    list.append(flag, builder.getUnitAttr());
  return list.getDictionary(builder.getContext());
}

/// Reads one dictionary; the first thing that is missing stays in `missing`.
class Record {
public:
  Record(Attribute attribute, StringRef &missing)
      : fields(dyn_cast_or_null<DictionaryAttr>(attribute)), missing(missing) {}

  template <typename AttrT> AttrT get(StringRef name) const {
    auto found = fields ? fields.getAs<AttrT>(name) : AttrT();
    if (!found && missing.empty())
      missing = name;
    return found;
  }
  std::string text(StringRef name) const {
    auto found = get<StringAttr>(name);
    return found ? found.str() : std::string();
  }
  /// 0 where there is none.
  double number(StringRef name) const {
    auto found = fields ? fields.getAs<FloatAttr>(name) : FloatAttr();
    return found ? found.getValueAsDouble() : 0;
  }
  bool flag(StringRef name) const { return fields && fields.getAs<UnitAttr>(name); }

private:
  DictionaryAttr fields;
  StringRef &missing;
};

} // namespace

void setAdapters(ModuleOp module, const rt::Adapters &adapters) {
  Builder builder(module.getContext());
  SmallVector<Attribute> linears, saved;
  for (const rt::LinearAdapter &linear : adapters.linears) {
    Fields fields = {
        {"weight", linear.weight}, {"module", linear.module}, {"a", linear.a}, {"b", linear.b}};
    if (adapters.dora)
      fields.emplace_back("magnitude", linear.magnitude);
    linears.push_back(record(builder, fields, "in_out", linear.inOut));
  }
  for (const rt::SavedParameter &each : adapters.saved)
    saved.push_back(record(builder, {{"parameter", each.parameter}, {"module", each.module}}));
  NamedAttrList all;
  all.append("rank", builder.getI64IntegerAttr(adapters.rank));
  all.append("alpha", builder.getF64FloatAttr(adapters.alpha));
  if (adapters.rankStabilized)
    all.append("rank_stabilized", builder.getUnitAttr());
  if (adapters.dropout > 0)
    all.append("dropout", builder.getF64FloatAttr(adapters.dropout));
  if (adapters.dora)
    all.append("dora", builder.getUnitAttr());
  all.append("linears", builder.getArrayAttr(linears));
  all.append("saved", builder.getArrayAttr(saved));
  module->setAttr(adaptersAttrName, all.getDictionary(module.getContext()));
}

FailureOr<rt::Adapters> getAdapters(ModuleOp module) {
  rt::Adapters adapters;
  Attribute attribute = module->getAttr(adaptersAttrName);
  if (!attribute)
    return adapters;
  StringRef missing;
  const Record all(attribute, missing);
  if (auto rank = all.get<IntegerAttr>("rank"))
    adapters.rank = rank.getInt();
  if (auto alpha = all.get<FloatAttr>("alpha"))
    adapters.alpha = alpha.getValueAsDouble();
  adapters.rankStabilized = all.flag("rank_stabilized");
  adapters.dropout = all.number("dropout");
  adapters.dora = all.flag("dora");
  if (auto linears = all.get<ArrayAttr>("linears"))
    for (Attribute each : linears) {
      const Record linear(each, missing);
      adapters.linears.push_back({linear.text("weight"), linear.text("module"), linear.text("a"),
                                  linear.text("b"), linear.flag("in_out"),
                                  adapters.dora ? linear.text("magnitude") : std::string()});
    }
  if (auto saved = all.get<ArrayAttr>("saved"))
    for (Attribute each : saved) {
      const Record parameter(each, missing);
      adapters.saved.push_back({parameter.text("parameter"), parameter.text("module")});
    }
  if (!missing.empty())
    return module.emitError() << "`" << adaptersAttrName << "` lacks `" << missing
                              << "`; omnibal-add-adapters writes it";
  return adapters;
}

} // namespace omnibal
