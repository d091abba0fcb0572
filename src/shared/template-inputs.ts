/** What Vocabulary.applyTemplate takes, as JSON. Read by addon/src/chat-template.cc. */
export interface TemplateInputs {
  /** In OpenAI's shape. `content` is text: parts are joined before. */
  messages: ReadonlyArray<Record<string, unknown> & { role: string; content: string | null }>;
  /** Ask for the assistant's turn to be opened at the end. Default: true. */
  addGenerationPrompt?: boolean;
  /** Leave the last message, the assistant's, open: the model goes on with it. Default: false. */
  continueFinalMessage?: boolean;
  /** Further variables of the template. `enable_thinking` is also understood where the template has another word for it. */
  templateKwargs?: Record<string, unknown>;
  /** In OpenAI's shape. */
  tools?: readonly unknown[];
  toolChoice?: 'none' | 'auto' | 'required';
}
