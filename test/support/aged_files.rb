# frozen_string_literal: true

# Files in the test's folder (`@directory`) that are some seconds old, counted from the first of them.
module AgedFiles
  # @param name [String]
  def path(name)
    File.join(@directory, name)
  end

  # @param age [Numeric] in seconds
  def write(name, text, age)
    File.write(path(name), text)
    at = (@base ||= Time.now) - age
    File.utime(at, at, path(name))
  end
end
