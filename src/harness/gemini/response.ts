import { isRecord, type Params } from "../rpc.ts";

/** A `functionResponse` as the update that ends a call would tell it. */
export function readResponse({ response }: Params): Params {
  const { output, error } = isRecord(response) ? response : {};
  if (typeof error === "string") return { status: "failed", rawOutput: error };
  if (typeof output !== "string") return { status: "completed" };
  const words = output.replace(/^<untrusted_context>\n?([\s\S]*?)\n?<\/untrusted_context>$/, "$1");
  if (!/^Process Group PGID: /m.test(words)) return { status: "completed", rawOutput: words };
  const code = Number(/^Exit Code: (-?\d+)$/m.exec(words)?.[1] ?? 0);
  const said = shellOutput(words);
  return { status: "completed", rawOutput: code === 0 ? said : { output: said, exit_code: code } };
}

/** A command's own words, out of the report that the model gets. */
function shellOutput(words: string): string {
  return (
    /^Output: ([\s\S]*?)(?:\n(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): |$)/.exec(
      words,
    )?.[1] ?? words
  );
}
