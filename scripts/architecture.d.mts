export interface GeneratedPart {
  readonly file: string;
  readonly name: string;
  readonly text: string;
}

export function readGenerated(): GeneratedPart[];
export function withPart(text: string, part: Pick<GeneratedPart, "name" | "text">): string;
export function readEdges(): Record<string, string[]>;
export function readTree(guide: string): { folder: string; about: string }[];
export function readWalk(guide: string, name: "out" | "in"): { room: string; file: string; about: string }[];
