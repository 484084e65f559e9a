"""SUMMARY"""
