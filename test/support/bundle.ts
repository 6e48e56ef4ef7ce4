import { type InputOptions, type ModuleFormat, rolldown } from "rolldown";

/** Bundles a source into one file, for programs that are started (and killed) on their own. */
export async function bundleInto(
  file: string,
  input: string,
  options: { format?: ModuleFormat; external?: InputOptions["external"] } = {},
): Promise<string> {
  const { format = "esm", external = [] } = options;
  const bundle = await rolldown({ input, platform: "node", external, logLevel: "silent" });
  // Modules that are loaded when they are used are in the file, too.
  await bundle.write({ file, format, codeSplitting: false });
  await bundle.close();
  return file;
}
