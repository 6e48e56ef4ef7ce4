import { SluiceError } from "../contract/index.ts";

/**
 * Throws where a file of output is shorter than the part of it that was read. Output only grows, so somebody has cut the
 * file, and new output cannot be told from output that was read before.
 */
export function demandLength({ size }: { readonly size: number }, read: number): void {
  if (size >= read) return;
  const detail = `The file of the process's output was shortened: ${read} bytes of it were read, and it has ${size}.`;
  throw new SluiceError("internal", detail, { isShortened: true });
}

export function isShortened(error: unknown): boolean {
  return error instanceof SluiceError && error.facts["isShortened"] === true;
}
