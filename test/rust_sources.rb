# frozen_string_literal: true

# The sources of a crate as tests of its structure read them: without comments and modules of tests.
module RustSources
  TESTS = /^#\[cfg\(test\)\]\n(?:#\[.*\]\n)*mod \w+ \{.*?^\}/m

  # @param folder [String] the folder `src` of the crate
  # @return [Hash{String => String}] path below it => text
  def self.read(folder)
    Dir[File.join(folder, "**/*.rs")].sort.to_h do |path|
      [path.delete_prefix("#{folder}/"), File.read(path).gsub(TESTS, "").gsub(%r{//.*}, "")]
    end
  end
end
