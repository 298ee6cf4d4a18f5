# What may come next is rakudactl's answer; here it is only brought to fish.
function __rakudactl_words
    set -l words (commandline -opc)
    $words[1] __complete (count $words) $words (commandline -ct) 2>/dev/null
end
complete -c rakudactl -f -a '(__rakudactl_words)'
