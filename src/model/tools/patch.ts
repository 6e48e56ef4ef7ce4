// Patches in the language of `apply_patch`, which knows whole lines only.

export function toAddPatch(path: string, content: string): string {
  return joinPatch([`*** Add File: ${path}`, ...linesOf(content).map((line) => `+${line}`)]);
}

export function toDeletePatch(path: string): string {
  return joinPatch([`*** Delete File: ${path}`]);
}

/** `contents`: known contents of files. They complete a line of which the edit names only a part. */
export function toEditPatch(
  edit: { path: string; old: string; new: string },
  contents: readonly string[],
): string {
  const whole = contents.map((content) => widen(edit, content)).findLast((found) => found !== undefined);
  const { old, new: replacement } = whole ?? edit;
  const removed = linesOf(old).map((line) => `-${line}`);
  const added = replacement === "" ? [] : linesOf(replacement).map((line) => `+${line}`);
  return joinPatch([`*** Update File: ${edit.path}`, "@@", ...removed, ...added]);
}

/** Extends an edit to whole lines; undefined if the content does not have the old text. */
function widen(
  edit: { old: string; new: string },
  content: string,
): { old: string; new: string } | undefined {
  const at = content.indexOf(edit.old);
  if (edit.old === "" || at === -1) return undefined;
  const before = content.slice(content.lastIndexOf("\n", at - 1) + 1, at);
  const end = at + edit.old.length;
  const lineEnd = content.indexOf("\n", edit.old.endsWith("\n") ? end - 1 : end);
  const after = content.slice(end, lineEnd === -1 ? undefined : Math.max(end, lineEnd));
  return { old: before + edit.old + after, new: before + edit.new + after };
}

function joinPatch(lines: readonly string[]): string {
  return ["*** Begin Patch", ...lines, "*** End Patch"].join("\n");
}

function linesOf(text: string): string[] {
  return text.replace(/\n$/, "").split("\n");
}
