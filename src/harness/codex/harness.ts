import type { Harness } from "../port.ts";
import { own } from "../transcript.ts";
import { decode } from "./decode.ts";
import { encode, greet, toCommand } from "./encode.ts";
import { detect, launch, lead, lendLogin, SKILLS_FOLDER } from "./launch.ts";
import { type CodexState, initialState } from "./state.ts";

/** OpenAI's Codex CLI, through its app-server: JSON-RPC, one message a line. */
export const codex: Harness<CodexState> = {
  id: "codex",
  title: "Codex",
  skillsFolder: SKILLS_FOLDER,
  takesInstructions: true,
  bridgesBuiltins: true,
  choices: {
    modes: ["default", "plan"],
    models: [
      "gpt-6.1-sol",
      "gpt-6.1-terra",
      "gpt-6-astra",
      "gpt-6-sol",
      "gpt-6-luna",
      "gpt-5.6-sol",
      "gpt-5.6-terra",
      "gpt-5.6-luna",
      "gpt-5.5",
    ],
    variants: ["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"],
  },
  credentials: [
    { env: "OPENAI_API_KEY" },
    { env: "CODEX_API_KEY" },
    { file: ".codex/auth.json", lend: lendLogin },
  ],
  addresses: ["OPENAI_BASE_URL"],
  lead,
  detect,
  launch,
  initial: initialState,
  greet,
  decode,
  encode,
  parentOf: ({ agents }, thread) => own(agents, thread)?.item,
  overhear: toCommand,
  lacks: [],
};
