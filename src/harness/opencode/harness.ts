import type { Harness } from "../port.ts";
import { own } from "../transcript.ts";
import { decode } from "./decode.ts";
import { encode } from "./encode.ts";
import { overhear } from "./forms.ts";
import { credentials, credentialsFor, detect, launch, SKILLS_FOLDER } from "./launch.ts";
import { AGENTS, lead } from "./provider.ts";
import { initialState, type OpencodeState } from "./state.ts";

/** OpenCode by its server: `opencode serve` behind a gateway that turns HTTP and SSE into lines. */
export const opencode: Harness<OpencodeState> = {
  id: "opencode",
  title: "OpenCode",
  skillsFolder: SKILLS_FOLDER,
  takesInstructions: true,
  choices: { modes: AGENTS, variants: ["none", "minimal", "low", "medium", "high", "xhigh", "max"] },
  credentials,
  credentialsFor,
  addresses: ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"],
  lead,
  detect,
  launch,
  initial: initialState,
  decode,
  encode,
  parentOf: ({ transcript, work }, session) => own(transcript.calls, own(work.children, session) ?? "")?.item,
  overhear,
  lacks: [],
};
