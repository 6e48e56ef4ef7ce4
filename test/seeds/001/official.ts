import { resolve } from "node:path";
import ts from "typescript";

/** An event and the name of its SDK type (`BetaManagedAgents…`). */
export interface Claim {
  readonly type: "StreamSessionEvents" | "Session";
  readonly value: unknown;
}

/**
 * Checks events against the declarations of the official SDK with the compiler: a field that is missing,
 * of another type, or on no page is a complaint.
 */
export function complaintsAbout(claims: readonly Claim[]): string[][] {
  const constants = claims.map(
    ({ type, value }, index) =>
      `export const v${index}: Anthropic.Beta.Sessions.BetaManagedAgents${type} = ${JSON.stringify(value)};`,
  );
  const source = [`import type Anthropic from "@anthropic-ai/sdk";`, ...constants].join("\n");
  const program = ts.createProgram({ rootNames: [FILE], options: OPTIONS, host: hostOf(source) });
  const file = program.getSourceFile(FILE);
  if (!file) throw new Error("The file of what was told is not in its program.");
  const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
  return claims.map((_, index) =>
    found
      .filter(({ start = 0 }) => file.getLineAndCharacterOfPosition(start).line === index + 1)
      .map(({ messageText }) => `${ts.flattenDiagnosticMessageText(messageText, " ")}: ${constants[index]}`),
  );
}

// A virtual file name, for the resolution of the SDK.
const FILE = resolve(import.meta.dirname, "told.generated.ts");

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ["node"],
};

function hostOf(source: string): ts.CompilerHost {
  const host = ts.createCompilerHost(OPTIONS);
  const { getSourceFile, fileExists, readFile } = host;
  host.fileExists = (name) => name === FILE || fileExists(name);
  host.readFile = (name) => (name === FILE ? source : readFile(name));
  host.getSourceFile = (name, ...rest) =>
    name === FILE ? ts.createSourceFile(name, source, ts.ScriptTarget.ES2023) : getSourceFile(name, ...rest);
  return host;
}
