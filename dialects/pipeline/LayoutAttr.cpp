//===- LayoutAttr.cpp - Text and duals of layouts ------------------------------------------===//
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace omnibal;

/// What is no split has no dimension and no units.
static LayoutAttr unsplit(MLIRContext *context, LayoutKind kind) {
  return LayoutAttr::get(context, kind, 0, UnitsOf::Number, 1, 1);
}

LayoutAttr LayoutAttr::whole(MLIRContext *context) { return unsplit(context, LayoutKind::Whole); }
LayoutAttr LayoutAttr::copied(MLIRContext *context) { return unsplit(context, LayoutKind::Copied); }
LayoutAttr LayoutAttr::partial(MLIRContext *context) {
  return unsplit(context, LayoutKind::Partial);
}
LayoutAttr LayoutAttr::split(MLIRContext *context, int64_t dim, int64_t units, int64_t inner) {
  return get(context, LayoutKind::Split, dim, UnitsOf::Number, units, inner);
}
LayoutAttr LayoutAttr::split(MLIRContext *context, int64_t dim, UnitsOf unitsOf, int64_t inner) {
  return get(context, LayoutKind::Split, dim, unitsOf, 1, inner);
}

LayoutAttr LayoutAttr::getDual() const {
  if (isCopied())
    return partial(getContext());
  return isPartial() ? copied(getContext()) : *this;
}

LayoutAttr LayoutAttr::at(int64_t tiles, int64_t tokens) const {
  if (getUnitsOf() == UnitsOf::Number)
    return *this;
  const int64_t units = getUnitsOf() == UnitsOf::Tiles ? tiles : tokens;
  return split(getContext(), getDim(), units, getInner());
}

LogicalResult LayoutAttr::verify(function_ref<InFlightDiagnostic()> emitError, LayoutKind kind,
                                 int64_t dim, UnitsOf, int64_t units, int64_t inner) {
  if (dim < 0 || units < 0 || inner < 1)
    return emitError() << "split_c1: a split has a dimension >= 0, units >= 0 and inner >= 1";
  return success();
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  LayoutKind kind = LayoutKind::Whole;
  int64_t dim = 0, units = 1, inner = 1;
  UnitsOf unitsOf = UnitsOf::Number;
  SMLoc where = parser.getCurrentLocation();
  FailureOr<LayoutKind> word = failure();
  if (parser.parseLess() || failed(word = FieldParser<LayoutKind>::parse(parser)))
    return {};
  kind = *word;
  if (kind == LayoutKind::Split) {
    if (parser.parseLParen() || parser.parseInteger(dim) || parser.parseColon())
      return {};
    if (succeeded(parser.parseOptionalKeyword("V")))
      unitsOf = UnitsOf::Tiles;
    else if (succeeded(parser.parseOptionalKeyword("N")))
      unitsOf = UnitsOf::Tokens;
    else if (parser.parseInteger(units))
      return {};
    if ((succeeded(parser.parseOptionalKeyword("x")) && parser.parseInteger(inner)) ||
        parser.parseRParen())
      return {};
  }
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(where); }, parser.getContext(), kind, dim,
                    unitsOf, units, inner);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyLayoutKind(getKind());
  if (isSplit()) {
    printer << "(" << getDim() << " : ";
    if (getUnitsOf() == UnitsOf::Number)
      printer << getUnits();
    else
      printer << (getUnitsOf() == UnitsOf::Tiles ? "V" : "N");
    if (getInner() != 1)
      printer << " x " << getInner();
    printer << ")";
  }
  printer << ">";
}
