# Looks whether a sandbox can run commands, makes its directories and says where its HOME is.
# Argument: the work directory; empty: `work` in HOME.
for tool in cat dd grep mkdir mkfifo rm tail wc; do
  command -v "$tool" >/dev/null 2>&1 || lacks="$lacks $tool"
done
[ -z "$lacks" ] || { echo "the template lacks$lacks"; exit 3; }
dd if=/dev/null iflag=fullblock of=/dev/null 2>/dev/null || { echo "its dd knows no iflag=fullblock"; exit 3; }
[ -r /proc/self/environ ] || { echo "/proc is not mounted in it"; exit 3; }
[ -n "$HOME" ] || { echo "HOME is not set in it"; exit 3; }
work=${1:-$HOME/work}
mkdir -p "$work" "$HOME/.rollgate" || { echo "$work or $HOME/.rollgate cannot be made"; exit 3; }
printf '%s' "$HOME"
