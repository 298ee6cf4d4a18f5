"use strict";
// Figures and names in the words of both pages. What is not known has no words. The report takes the live page's place in the same
// window, where a name may be declared once more only with `var`.
var words = (() => {
  function seconds(value) {
    if (value === null || value === undefined) return "";
    if (value === 0) return "0 s";
    if (value >= 3600) return Math.floor(value / 3600) + " h " + Math.round((value % 3600) / 60) + " min";
    if (value >= 100) return Math.floor(value / 60) + " min " + Math.round(value % 60) + " s";
    if (value >= 1) return value.toPrecision(3) + " s";
    if (value >= 1e-3) return (value * 1e3).toPrecision(3) + " ms";
    return value >= 1e-6 ? (value * 1e6).toFixed(0) + " µs" : (value * 1e9).toFixed(0) + " ns";
  }
  function size(value) {
    if (value === null || value === undefined) return "";
    if (value < 1000) return value + " B";
    let unit = -1;
    while (value >= 999.5 && unit < 5) { value /= 1000; unit++; }
    return value.toPrecision(3) + " " + ["kB", "MB", "GB", "TB", "PB", "EB"][unit];
  }
  // Memory in powers of 1024, in which `memory:` of a Rakefile counts: what was measured, rounded down.
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
  function memory(value) {
    let unit = 0;
    while (value >= 1024 && unit < 4) { value /= 1024; unit++; }
    const scale = !unit || value >= 100 ? 1 : value >= 10 ? 10 : 100;
    return (Math.floor(value * scale) / scale).toFixed(Math.log10(scale)) + " " + UNITS[unit];
  }
  // What was asked for, as it was: in the largest unit of which it is a whole number.
  function requested(value) {
    let whole = value, unit = 0;
    while (whole && whole % 1024 === 0 && unit < 4) { whole /= 1024; unit++; }
    return whole < 1e6 ? whole + " " + UNITS[unit] : memory(value);
  }

  // As much of a name as has room, in px: its beginning and its end, since names differ at their ends. The font is the context's.
  function short(context, name, room) {
    const fits = (text) => context.measureText(text).width <= room;
    if (fits(name)) return name;
    const cut = (kept) => name.slice(0, Math.ceil(kept / 2)) + "…" + name.slice(name.length - Math.floor(kept / 2));
    let low = 1, high = name.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (fits(cut(middle))) low = middle; else high = middle - 1;
    }
    return cut(low);
  }

  return { seconds, size, memory, requested, short };
})();
