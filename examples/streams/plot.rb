# frozen_string_literal: true

# Draws the magnetisation over the temperature, from the table of stats.rb, as SVG.
#
#     ruby plot.rb table > picture.svg

rows = File.readlines(ARGV[0]).map { |line| line.split.map(&:to_f) }
low, high = rows.map(&:first).minmax
points = rows.map do |temperature, _, _, magnetisation|
  x = 40 + 320 * (temperature - low) / [high - low, 1e-9].max
  format("%.1f,%.1f", x, 220 - 200 * magnetisation)
end
puts <<~SVG
  <svg xmlns="http://www.w3.org/2000/svg" width="400" height="260" font-family="sans-serif" font-size="11">
    <path d="M40 20V220H360" fill="none" stroke="#606060"/>
    <polyline points="#{points.join(' ')}" fill="none" stroke="#2060c0" stroke-width="2"/>
    <text x="40" y="240">#{low}</text><text x="340" y="240">#{high}</text><text x="8" y="24">|m|</text>
    <text x="180" y="252">temperature</text>
  </svg>
SVG
