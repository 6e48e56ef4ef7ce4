import { serve } from "../serve.mjs";

await serve(import.meta.dirname);
