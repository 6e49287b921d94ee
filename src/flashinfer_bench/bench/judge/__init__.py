"""The process that knows what is right: it draws inputs, drives candidates and checks what they return."""
