# frozen_string_literal: true

# The numbers that a benchmark is called with.
module Arguments
  HELP = %w[-h --help].freeze

  # Ends with the usage where it is asked for, or where a word is no number above 0.
  # @param usage [String] the line that says how the benchmark is called
  # @param defaults [Array<Integer>] one for each number that may be given
  # @return [Array<Integer>] as many
  def self.numbers(usage, *defaults)
    help(usage)
    wrong = ARGV.grep_v(/\A[1-9]\d*\z/).first || ARGV[defaults.size]
    abort "#{wrong}: a number is not expected here, or this is none above 0; #{usage}" if wrong
    defaults.zip(ARGV).map { |default, word| word ? Integer(word) : default }
  end

  # Ends with the usage where it is asked for.
  def self.help(usage)
    return unless ARGV.intersect?(HELP)

    puts usage
    exit
  end
end
