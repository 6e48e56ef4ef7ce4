import { join, resolve } from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const ENTRY = join(ROOT, "src/sdk/index.ts");
const OPTIONS: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  allowImportingTsExtensions: true,
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ["node"],
  typeRoots: [join(ROOT, "node_modules/@types")],
};
const program = ts.createProgram([ENTRY], OPTIONS);
const checker = program.getTypeChecker();

/** The documentation that an editor shows for the SDK. */
describe("the SDK's documentation in the code", () => {
  it.each(exportsOf(ENTRY))("%s has a description and an example", (_name, symbol) => {
    expect(ts.displayPartsToString(symbol.getDocumentationComment(checker))).not.toBe("");
    expect(examplesOf(symbol)).not.toEqual([]);
  });

  it.each(methodsOf("Sluice"))("Sluice.%s has a description and an example", (_name, symbol) => {
    expect(ts.displayPartsToString(symbol.getDocumentationComment(checker))).not.toBe("");
    expect(examplesOf(symbol)).not.toEqual([]);
  });

  it("has examples that compile in strict mode", { timeout: 180_000 }, () => {
    const blocks = [...exportsOf(ENTRY), ...methodsOf("Sluice")].flatMap(([, symbol]) => examplesOf(symbol));
    const names = exportsOf(ENTRY).map(([name]) => name);
    const source = [
      `import { ${names.map(toImport).join(", ")} } from ${JSON.stringify(ENTRY)};`,
      `import { z } from "zod";`,
      `declare const sluice: Sluice;`,
      `declare const text: string;`,
      `declare function render(event: unknown): void;`,
      ...blocks.map((code) => `export async function f${blocks.indexOf(code)}() {\n${code}\n}`),
    ].join("\n");
    expect(problemsOf(source)).toEqual([]);
  });
});

const VALUES = new Set([
  "Sluice",
  "extractBrowserUseUrls",
  "isBrowserUseTool",
  "readLocalDir",
  "saveLocalDir",
]);

function toImport(name: string): string {
  return VALUES.has(name) ? name : `type ${name}`;
}

/** The compiler's messages for a module in this folder. */
function problemsOf(source: string): string[] {
  const file = join(import.meta.dirname, "examples-of-tsdoc.mts");
  const host = ts.createCompilerHost(OPTIONS);
  const { fileExists, getSourceFile } = host;
  host.fileExists = (name) => name === file || fileExists.call(host, name);
  host.getSourceFile = (name, ...rest) =>
    name === file
      ? ts.createSourceFile(name, source, ts.ScriptTarget.ES2023)
      : getSourceFile.call(host, name, ...rest);
  const checked = ts.createProgram([file], OPTIONS, host, program);
  return ts.getPreEmitDiagnostics(checked, checked.getSourceFile(file)).map(({ start = 0, messageText }) => {
    const line = source.slice(source.lastIndexOf("\n", start) + 1, source.indexOf("\n", start));
    return `${line}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
  });
}

function exportsOf(file: string): [string, ts.Symbol][] {
  const source = program.getSourceFile(file);
  const module = source && checker.getSymbolAtLocation(source);
  if (!module) throw new Error(`${file} exports nothing`);
  return checker.getExportsOfModule(module).map((symbol) => {
    const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
    return [symbol.name, isAlias ? checker.getAliasedSymbol(symbol) : symbol];
  });
}

/** Its own public members and those of its base classes in this project. */
function methodsOf(name: string): [string, ts.Symbol][] {
  const [, symbol] = exportsOf(ENTRY).find(([exported]) => exported === name) ?? [];
  if (!symbol) throw new Error(`there is no ${name}`);
  return checker
    .getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol))
    .filter((member) => {
      const [declaration] = member.declarations ?? [];
      if (!declaration || !/\/src\/sdk\//.test(declaration.getSourceFile().fileName)) return false;
      const hidden = ts.ModifierFlags.Protected | ts.ModifierFlags.Private;
      if (!ts.isMethodDeclaration(declaration) || !ts.isIdentifier(declaration.name)) return false;
      return (ts.getCombinedModifierFlags(declaration) & hidden) === 0;
    })
    .map((member) => [member.name, member]);
}

function examplesOf(symbol: ts.Symbol): string[] {
  const examples = symbol.getJsDocTags(checker).filter(({ name }) => name === "example");
  return examples.map(({ text }) => ts.displayPartsToString(text));
}
