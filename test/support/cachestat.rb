# frozen_string_literal: true

require "etc"

# Whether the kernel says what of a file is in memory.
module Cachestat
  # @return [Boolean] Linux 6.5 and later do
  def cachestat? = Gem::Version.new(Etc.uname[:release][/\A[\d.]+/].chomp(".")) >= Gem::Version.new("6.5")
end
