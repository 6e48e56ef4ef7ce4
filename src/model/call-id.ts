/** Ids of calls carry the answer that they belong to: clients give them back, and so the history can be counted. */

/** `aside`: a call that the script does not know of, such as a search for the tool that the script needs. */
export function toCallId(answer: string, ordinal: number, options: { aside?: boolean } = {}): string {
  return `${answer}_${options.aside === true ? "x" : "n"}${ordinal}`;
}

export function roundOf(id: string): string | undefined {
  return ID.exec(id)?.[1];
}

export function isAside(id: string): boolean {
  return ID.exec(id)?.[2] === "x";
}

const ID = /([0-9a-f]{12})_([nx])\d+$/;
