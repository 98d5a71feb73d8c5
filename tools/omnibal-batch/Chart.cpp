#include "tools/omnibal-batch/Chart.h"
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace omnibal::rt {
namespace {

constexpr double width = 560, left = 52, right = 10, top = 18, panelHeight = 96, panelGap = 26;
constexpr double plotWidth = width - left - right;
constexpr double height = top + 2 * panelHeight + panelGap + 34;
constexpr int64_t mostBins = 48, mostRows = 100;

__attribute__((format(printf, 2, 3))) void add(std::string &out, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  out += text;
}

/// 1, 2 or 5 times a power of ten, at least `value`.
double roundUp(double value, bool whole) {
  if (!(value > 0))
    return 1;
  double power = std::pow(10, std::floor(std::log10(value)));
  for (double factor : {1., 2., 5., 10.})
    if (factor * power >= value * (1 - 1e-9))
      return whole ? std::max(1., factor * power) : factor * power;
  return 10 * power;
}

double panelTop(int panel) { return top + panel * (panelHeight + panelGap); }

void begin(std::string &out, const std::string &name) {
  add(out, "<svg role=\"img\" aria-label=\"%s\" viewBox=\"0 0 %.0f %.0f\">\n", name.c_str(), width,
      height);
}

void panelFrame(std::string &out, int panel, const Loads &loads) {
  double y = panelTop(panel);
  add(out, "<text class=\"label\" x=\"%.0f\" y=\"%.1f\">%s</text>\n", left, y - 5,
      loads.label.c_str());
  add(out, "<line class=\"axis\" x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\"/>\n", left,
      y + panelHeight, left + plotWidth, y + panelHeight);
}

double largest(const Loads &loads) {
  double most = 0;
  for (double value : loads.values)
    most = std::max(most, value);
  return most;
}

/// 0, `step`, 2 `step`, ... up to `last`, which rounding does not leave out.
std::vector<double> ticks(double last, double step) {
  std::vector<double> values;
  for (int64_t i = 0; static_cast<double>(i) * step <= last * (1 + 1e-9); ++i)
    values.push_back(static_cast<double>(i) * step);
  return values;
}

/// Numbers below the lower panel, and the unit; `shift` moves a number to the middle of its bar.
void bottomAxis(std::string &out, double high, double shift, const Quantity &q) {
  double step = roundUp(high / 6, q.whole), y = panelTop(1) + panelHeight;
  for (double value : ticks(high - shift, step)) {
    double x = left + plotWidth * (value + shift) / high;
    add(out, "<line class=\"axis\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", x, y, x,
        y + 4);
    add(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x, y + 16,
        shortNumber(value).c_str());
  }
  add(out, "<text class=\"unit\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s of a group</text>\n",
      left + plotWidth, y + 31, q.unit.c_str());
}

struct Bins {
  double size;
  int64_t count;
};

void bars(std::string &out, int panel, const Loads &loads, const Bins &bins, const Quantity &q) {
  std::vector<int64_t> counts(static_cast<size_t>(bins.count));
  for (double value : loads.values)
    ++counts[static_cast<size_t>(
        std::min(bins.count - 1, static_cast<int64_t>(value / bins.size)))];
  int64_t most = *std::max_element(counts.begin(), counts.end());
  double all = std::max<double>(1, static_cast<double>(loads.values.size()));
  double base = panelTop(panel) + panelHeight;
  double barWidth = plotWidth / static_cast<double>(bins.count);
  for (int64_t i = 0; i < bins.count; ++i) {
    if (counts[i] == 0)
      continue;
    double share = static_cast<double>(counts[i]);
    double barHeight = std::max(1., (panelHeight - 4) * share / static_cast<double>(most));
    double from = static_cast<double>(i) * bins.size, to = from + bins.size - (q.whole ? 1 : 0);
    std::string range = shortNumber(from) + (to > from ? " to " + shortNumber(to) : "");
    add(out,
        "<rect class=\"s%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\">"
        "<title>%s %s: %.3g %% of the groups</title></rect>\n",
        panel, left + static_cast<double>(i) * barWidth + 0.5, base - barHeight,
        std::max(0.8, barWidth - 1), barHeight, range.c_str(), q.unit.c_str(), 100 * share / all);
  }
  add(out, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%.3g %%</text>\n", left - 6,
      panelTop(panel) + 9, 100 * static_cast<double>(most) / all);
}

/// One row's least, mean and largest load.
void rangeBar(std::string &out, int panel, const Loads &loads, int64_t row, double x, double w,
              double high, const Quantity &q) {
  const double *first = loads.values.data() + row * loads.ranks;
  auto [least, most] = std::minmax_element(first, first + loads.ranks);
  double base = panelTop(panel) + panelHeight, scale = (panelHeight - 4) / high;
  double tall = std::max(2., (*most - *least) * scale);
  add(out,
      "<rect class=\"s%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" rx=\"1\">"
      "<title>step %lld: %s to %s %s</title></rect>\n",
      panel, x, std::min(base - 2, base - *most * scale), w, tall, static_cast<long long>(row + 1),
      shortNumber(*least).c_str(), shortNumber(*most).c_str(), q.unit.c_str());
}

void sideAxis(std::string &out, int panel, double high, bool whole) {
  double step = roundUp(high / 3, whole), base = panelTop(panel) + panelHeight;
  for (double value : ticks(high, step)) {
    double y = base - (panelHeight - 4) * value / high;
    if (value > 0)
      add(out, "<line class=\"grid\" x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\"/>", left, y,
          left + plotWidth, y);
    add(out, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", left - 6, y + 4,
        shortNumber(value).c_str());
  }
}

} // namespace

std::string withCommas(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > (number < 0); i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string shortNumber(double value) {
  if (std::abs(value) >= 1000)
    return withCommas(std::llround(value));
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string histogram(const Loads &before, const Loads &after, const Quantity &q) {
  double high = std::max({largest(before), largest(after), q.cap});
  high = high > 0 ? high : 1;
  Bins bins{roundUp((high + (q.whole ? 1 : 0)) / static_cast<double>(mostBins), q.whole), 0};
  bins.count = static_cast<int64_t>(high / bins.size) + 1;
  double end = bins.size * static_cast<double>(bins.count);
  std::string out;
  begin(out, "How many groups have how many " + q.unit);
  for (int panel : {0, 1}) {
    const Loads &loads = panel ? after : before;
    panelFrame(out, panel, loads);
    bars(out, panel, loads, bins, q);
    if (q.cap > 0) {
      // A bar holds the values from its left edge on: the cap's own bar lies before the line.
      double x = left + plotWidth * std::min(end, q.cap + (q.whole ? 1 : 0)) / end;
      add(out, "<line class=\"cap\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x,
          panelTop(panel), x, panelTop(panel) + panelHeight);
      add(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">cap</text>\n", x,
          panelTop(panel) - 4);
    }
  }
  bottomAxis(out, end, q.whole && bins.size == 1 ? 0.5 : 0, q);
  return out + "</svg>\n";
}

std::string rowRanges(const Loads &before, const Loads &after, const Quantity &q) {
  auto rowsOf = [](const Loads &l) { return static_cast<int64_t>(l.values.size()) / l.ranks; };
  int64_t rows = std::min({mostRows, rowsOf(before), rowsOf(after)});
  double high = std::max({largest(before), largest(after), q.cap});
  high = high > 0 ? high : 1;
  std::string out;
  begin(out, "Least and most " + q.unit + " of a rank in each step");
  for (int panel : {0, 1}) {
    const Loads &loads = panel ? after : before;
    panelFrame(out, panel, loads);
    sideAxis(out, panel, high, q.whole);
    double slot = plotWidth / static_cast<double>(std::max<int64_t>(1, rows));
    for (int64_t row = 0; row < rows; ++row)
      rangeBar(out, panel, loads, row, left + (static_cast<double>(row) + 0.15) * slot, 0.7 * slot,
               high, q);
  }
  double y = panelTop(1) + panelHeight;
  add(out, "<text x=\"%.0f\" y=\"%.1f\">1</text>", left, y + 16);
  add(out, "<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", left + plotWidth, y + 16,
      withCommas(std::max<int64_t>(1, rows)).c_str());
  add(out,
      "<text class=\"unit\" x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">step; %s of its least to "
      "its most loaded rank</text>\n",
      left + plotWidth, y + 31, q.unit.c_str());
  return out + "</svg>\n";
}

} // namespace omnibal::rt
